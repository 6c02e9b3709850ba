"""What the form offers: choices, their texts and sizes."""
