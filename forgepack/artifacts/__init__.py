"""What lies on disk, parsed once at the boundary into frozen values; no policy here."""
