"""The formats of other tools' logs: one file each, found without a list.  See pyio_trace.log.foreign_log.Format."""
