# One module for each region. millipede.hcl beside this file decides which workers execute the operations of which
# region.

variable "services" {
  type    = number
  default = 3
}

module "eu" {
  source   = "./region"
  name     = "eu"
  services = var.services
}

module "us" {
  source   = "./region"
  name     = "us"
  services = var.services
}

output "services" {
  value = concat(module.eu.services, module.us.services)
}
