"""Tests of bundles, published releases, recipes and builds."""
