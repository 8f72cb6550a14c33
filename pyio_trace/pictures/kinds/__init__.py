"""The pictures, one file each; there is no list of them."""
