"""What people type: the launch of a program under trace, and commands on logs."""
