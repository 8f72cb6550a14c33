"""The report: one HTML file that needs nothing else, to look at and to send.

document.py makes what the page says, rows.py and columns.py what its timeline
shows, html.py the file.  The page itself is web/, built into assets/.
"""
