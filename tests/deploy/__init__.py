"""What an operator takes from deploy/."""
