variable "generation" {
  description = "Raise it to issue the credential again."
  type        = number
  default     = 1
}

variable "days" {
  description = "Days after which the credential is due for rotation."
  type        = number
  default     = 30

  validation {
    condition     = var.days > 0
    error_message = "A credential lives for at least one day."
  }
}

variable "grace_days" {
  description = "Days for which the old credential stays valid after that."
  type        = number
  default     = 7
}
