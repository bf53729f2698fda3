"""forgepack: packager and contract verifier of a speculative-decoding release."""

__version__ = "0.1.0"
