"""What servers and runners agree on: variable names, the attempt's files, event lines, exit causes.

Standard library only, cheap to import, and stable: a runner may outlive several versions of the servers.
"""
