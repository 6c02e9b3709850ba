"""Who used how much of scarce devices, and who may use more: pure functions of recorded launches."""
