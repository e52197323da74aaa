"""What commands share: status, interest, trace, plan and apply, operators' records, doctor."""
