"""What a round follows: settings, published shapes, overrides, namespaces, orders."""
