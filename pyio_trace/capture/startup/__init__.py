"""What runs before the traced program: the launch, and the hooks that an interpreter finds as it starts."""
