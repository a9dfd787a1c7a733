terraform {
  provider_meta "fleet" {
    module = "root"
  }
}

variable "size" { default = "small" }
provider "fleet" {
  region = "eu-1"
  defaults { labels = { team = "core" } }
}
provider "fleet5" {}
provider "legacy" {}
provider "unruly" {}
resource "fleet_machine" "a" {
  count             = 3
  name              = "a-${count.index}"
  size              = var.size
  labels            = { n = tostring(count.index) }
  secret_wo         = "hush"
  secret_wo_version = 1
  create_ms         = 50
}
resource "fleet5_machine" "b" {
  name     = "b-${fleet_machine.a[0].serial}"
  password = "secret"
  size     = var.size
  image    = "i1"
}
resource "fleet_blocks" "c" {
  name = "c"
  disk {
    name = "d1"
    mount {
      path    = "/"
      options = ["ro"]
    }
  }
  disk { name = fleet_machine.a[1].id }
  rule { port = 80 }
  rule {
    port     = 443
    protocol = "tcp"
  }
  network {
    cidr = "10.0.0.0/8"
    route { to = "x" }
  }
}
resource "fleet_nested" "d" {
  name      = "d"
  owner     = { email = "a@b" }
  volumes   = [{ name = "v1" }, { name = "v2", size_gb = 5 }]
  listeners = [{ port = 80 }, { port = 443, protocol = var.size }]
  users     = { joe = { role = "admin", keys = [{ kind = "ssh", material = "x" }] }, eve = { role = var.size } }
  anything  = { a = [1, "x"], b = true }
  rule { port = 80 }
}
resource "fleet5_blocks" "e" {
  name = "e"
  disk { name = "x" }
}
resource "fleet_identity" "f" {
  name = "f"
  size = var.size
}
resource "fleet_moved" "g" {
  name  = "g"
  grade = var.size
}
data "fleet_lookup" "h" {
  name = fleet_machine.a[2].name
}
ephemeral "fleet_token" "t" {
  name     = "t"
  renew_ms = 20
}
resource "fleet_machine" "w" {
  name              = "w"
  secret_wo         = ephemeral.fleet_token.t.token
  secret_wo_version = 1
}
resource "legacy_item" "i" {
  name    = "i"
  size    = var.size
  mangled = "abc"
  note    = "n"
  digest  = "abc"
  tags    = { a = "b" }
  zones   = ["z1"]
  ports   = [80, 443]
  disk { size = 3 }
  rule {
    port    = 1
    sources = ["s"]
  }
  network { cidr = "10.0.0.0/8" }
}
data "legacy_lookup" "j" { name = legacy_item.i.name }
resource "unruly_thing" "k" {
  name  = "k"
  value = var.size
  items = ["a"]
  part { key = "a" }
}
resource "unruly_shapes" "l" {
  any   = { x = 1 }
  one   = { key = "a" }
  some  = [{ key = "b" }]
  bag   = [{ key = var.size }]
  table = { t = { note = "n" } }
  tuple = ["a", 1]
  single { key = "x" }
  list { key = "x" }
  set { key = "x" }
  map "m" { key = "x" }
}
data "unruly_data" "m" { name = "m" }
ephemeral "unruly_token" "n" { name = "n" }
resource "time_static" "o" {}
output "x" { value = provider::fleet::join_upper("a", "b") }
output "y" { value = [provider::fleet5::total(1, 2, 3.5), provider::fleet::or_else("q", "z"), provider::fleet::echo({ a = [1] }), provider::fleet::describe({ name = "x", ports = [1, 2] }), provider::unruly::misdo(null, "v"), provider::fleet::nap(2)] }
output "z" { value = data.fleet_lookup.h.ip }
output "tok" {
  value = data.legacy_lookup.j.size
}
