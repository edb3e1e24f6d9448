variable "name" {
  description = "Name of the database."
  type        = string
}

variable "engine" {
  description = "Which one: postgres or mysql."
  type        = string
  default     = "postgres"

  validation {
    condition     = contains(["postgres", "mysql"], var.engine)
    error_message = "The engine is postgres or mysql."
  }
}

variable "storage" {
  description = "Size of its disk in GiB."
  type        = number
  default     = 20

  validation {
    condition     = var.storage >= 10 && var.storage <= 500
    error_message = "The disk has 10 to 500 GiB."
  }
}

variable "password" {
  description = "Password of its administrator."
  type        = string
  sensitive   = true
}

resource "terraform_data" "database" {
  input = { name = var.name, engine = var.engine, storage = var.storage }
}

output "address" {
  description = "Where it listens."
  value       = "${terraform_data.database.id}.example.com"
}

output "password" {
  description = "Password of its administrator."
  value       = var.password
  sensitive   = true
}
