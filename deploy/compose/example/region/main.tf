variable "name" { type = string }

resource "terraform_data" "place" {
  count = 3
  input = "${var.name}-${count.index}"
}

output "place" {
  value = terraform_data.place[*].output
}
