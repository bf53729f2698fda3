"""Other people's programs and readers agree with what this tool writes."""
