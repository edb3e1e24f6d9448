# When a credential was made, when it is due, and when it stops being valid.

terraform {
  required_providers {
    time = {
      source  = "okara.test/acme/time"
      version = "~> 0.14"
    }
  }
}

resource "time_static" "issued" {
  triggers = { generation = var.generation }
}

resource "time_offset" "due" {
  base_rfc3339 = time_static.issued.rfc3339
  offset_days  = var.days
}

resource "time_offset" "expiry" {
  base_rfc3339 = time_offset.due.rfc3339
  offset_days  = var.grace_days
}
