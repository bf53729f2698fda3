"""The only room that touches Core AI: author, save, read back, execute.

Apple's ``coreai-core`` is imported inside functions only, so importing this package costs nothing and works
where the wheel does not exist; there each function raises PlatformError. Private names of ``coreai-core`` live in
``bindings`` alone, each with a canary test, because they may change with any release of the wheel.

May import: artifacts, disk.
"""
