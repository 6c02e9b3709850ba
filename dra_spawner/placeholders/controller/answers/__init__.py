"""What the controller answers: availability, waits, pending servers, reasons of the scheduler."""
