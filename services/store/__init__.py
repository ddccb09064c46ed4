"""What outlives the controller: state, decisions, leadership and worker reports, in Redis or in memory."""
