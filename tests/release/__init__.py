"""Tests of what is done around a package: bundles, published releases, gates, recipes and builds."""
