"""What released versions wrote, held to today's readers; fixtures/make_compat.py makes the folders."""
