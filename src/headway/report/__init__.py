"""What an evaluation looks like: figures from the api's report, the browser's part that draws them, one HTML file.
The console draws with the same part."""
