# One module for each region. Which workers carry out which region is decided in millipede.hcl beside this file.

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
