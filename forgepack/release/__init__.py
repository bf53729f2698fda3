"""What release engineers do around the package: bundles, published bundles, recipes, the state of this machine."""
