"""The two parts of the page that the browser draws by itself: the table of runs and the log.
Both get plain data and send back what was chosen."""
