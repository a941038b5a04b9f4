"""Entries kept whole after they are merged: objects of segments, and the places that store them."""
