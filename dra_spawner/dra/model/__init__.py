"""Claims, devices, pools and their parts, as the API has them."""
