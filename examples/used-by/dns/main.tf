variable "zone" {
  type = string
}

output "zone" {
  value = var.zone
}
