"""The rules: one file each, found without a list.  docs/how-to/write-a-rule.md says what is in one."""
