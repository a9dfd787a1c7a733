# Resources that two pools of workers carry out: see millipede.hcl beside this file.

variable "per_region" {
  type    = number
  default = 3
}

resource "terraform_data" "eu" {
  count = var.per_region
  input = "made in eu, number ${count.index}"
}

resource "terraform_data" "us" {
  count = var.per_region
  input = "made in us, number ${count.index}"
}

output "made" {
  value = concat(terraform_data.eu[*].output, terraform_data.us[*].output)
}
