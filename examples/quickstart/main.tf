# A first configuration: it needs no provider to be installed.

variable "regions" {
  description = "Where services run."
  type        = map(number)
  default = {
    eu = 2
    us = 1
  }
}

locals {
  services = merge([
    for region, n in var.regions : {
      for i in range(n) : "${region}-${i}" => { region = region, index = i }
    }
  ]...)
}

resource "terraform_data" "network" {
  for_each = var.regions
  input    = { name = "net-${each.key}", cidr = cidrsubnet("10.0.0.0/8", 8, index(keys(var.regions), each.key)) }
}

resource "terraform_data" "service" {
  for_each = local.services
  input = {
    name    = "service-${each.key}"
    network = terraform_data.network[each.value.region].id
    address = cidrhost(terraform_data.network[each.value.region].output.cidr, 10 + each.value.index)
  }

  lifecycle {
    precondition {
      condition     = each.value.index < 200
      error_message = "A network has room for 200 services."
    }
  }
}

resource "terraform_data" "release" {
  triggers_replace = [for s in terraform_data.service : s.id]
  input            = "${length(terraform_data.service)} services"
}

output "addresses" {
  description = "The address of each service."
  value       = { for name, s in terraform_data.service : name => s.output.address }
}

output "release" {
  value = terraform_data.release.output
}
