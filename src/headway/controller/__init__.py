"""The controller: loops that compare what the record says with what engines and runners report, and act."""
