"""The documentation is held against the code: sessions are run, reference pages are made, links are followed."""
