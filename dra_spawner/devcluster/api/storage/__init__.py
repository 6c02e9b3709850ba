"""Objects and their versions: written, watched, admitted, deleted."""
