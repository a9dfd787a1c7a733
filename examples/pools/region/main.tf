variable "name" {
  type = string
}

variable "services" {
  type = number
}

resource "terraform_data" "service" {
  count = var.services
  input = "service ${count.index} in ${var.name}"
}

output "services" {
  value = terraform_data.service[*].output
}
