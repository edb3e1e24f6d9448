output "issued" {
  description = "When this generation was issued."
  value       = time_static.issued.rfc3339
}

output "due" {
  description = "When it should be rotated."
  value       = time_offset.due.rfc3339
}

output "expiry" {
  description = "When it stops being valid."
  value       = time_offset.expiry.rfc3339
}
