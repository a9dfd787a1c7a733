package funcs_test

import (
	"testing"

	"github.com/millipede-iac/millipede/lang/funcs"
)

func TestNetworks(t *testing.T) {
	same{
		"cidrhost counts from the start and from the end": {
			`[cidrhost("10.12.112.0/20", 16), cidrhost("10.0.0.0/24", -1)]`, `["10.12.112.16", "10.0.0.255"]`},
		"cidrhost ignores the host bits of its prefix": {`cidrhost("10.0.0.5/24", 1)`, `"10.0.0.1"`},
		"cidrhost knows IPv6": {`cidrhost("fd00:fd12:3456:7890:00a2::/72", 34)`,
			`"fd00:fd12:3456:7890::22"`},
		"leading zeros mean nothing": {
			`[cidrhost("010.00.000.0/08", 1), cidrhost("fd00:00001::/64", 1)]`, `["10.0.0.1", "fd00:1::1"]`},
		"cidrnetmask": {`[cidrnetmask("172.16.0.0/12"), cidrnetmask("0.0.0.0/0")]`,
			`["255.240.0.0", "0.0.0.0"]`},
		"cidrsubnet extends a prefix": {
			`[cidrsubnet("10.0.0.0/8", 8, 1), cidrsubnet("fe80::/48", 16, 6)]`, `["10.1.0.0/16", "fe80:0:0:6::/64"]`},
		"cidrsubnets lays out one after another": {`cidrsubnets("10.0.0.0/8", 8, 4, 8)`,
			`tolist(["10.0.0.0/16", "10.16.0.0/12", "10.32.0.0/16"])`},
		"cidrsubnets fills a prefix to its end": {`cidrsubnets("255.255.255.0/24", 1, 1)`,
			`tolist(["255.255.255.0/25", "255.255.255.128/25"])`},
		"cidrsubnets of nothing": {`jsonencode(cidrsubnets("10.0.0.0/8"))`, `"[]"`},
		"cidrcontains takes addresses and prefixes": {
			`[cidrcontains("10.0.0.0/8", "10.1.2.3"), cidrcontains("10.0.0.0/8", "10.1.0.0/16"), ` +
				`cidrcontains("10.0.0.0/8", "10.0.0.0/7")]`, `[true, true, false]`},
		"cidrcontains knows IPv6": {`cidrcontains("fe80::/10", "fe80::1")`, `true`},
	}.prove(t, funcs.Options{})
	refused{
		"what is no prefix": {`cidrhost("10.0.0.0", 1)`, badCall,
			`"10.0.0.0" is not an IP address followed by`, ""},
		"a prefix that is too long": {`cidrhost("10.0.0.0/33", 1)`, badCall,
			"is not an IP address followed by", ""},
		"a host beyond the prefix": {`cidrhost("10.0.0.0/24", 256)`, badCall,
			"does not accommodate", ""},
		"a host beyond the end, from the end": {`cidrhost("10.0.0.0/24", -257)`, badCall,
			"does not accommodate", ""},
		"a host beyond all addresses": {`cidrhost("10.0.0.0/8", 18446744073709551616)`, badCall,
			"too great for an IP address", ""},
		"half a host":         {`cidrhost("10.0.0.0/8", 1.5)`, badCall, "whole number", ""},
		"the netmask of IPv6": {`cidrnetmask("fd00::/64")`, badCall, "only IPv4 has netmasks", ""},
		"a subnet beyond the extension": {`cidrsubnet("10.0.0.0/8", 8, 256)`, badCall,
			"does not accommodate", ""},
		"an extension beyond the address": {`cidrsubnet("10.0.0.0/8", 25, 0)`, badCall,
			"insufficient address space", ""},
		"subnets of what is no prefix": {`cidrsubnets("bogus", 1)`, badArgument,
			`"bogus" is not an IP address`, ""},
		"a subnet that is the whole prefix": {`cidrsubnets("10.0.0.0/8", 0)`, badArgument,
			"by 1 to 24 bits, not by 0", ""},
		"a subnet that is smaller than a host": {`cidrsubnets("10.0.0.0/8", 25)`, badArgument,
			"by 1 to 24 bits, not by 25", ""},
		"more than 32 bits at once": {`cidrsubnets("fe80::/48", 33)`, badArgument,
			"by 1 to 32 bits, not by 33", ""},
		"subnets that do not fit": {`cidrsubnets("10.0.0.0/24", 1, 1, 1)`, badArgument,
			"after 10.0.0.128/25 there is no room left", ""},
		"subnets that do not fit before the end": {`cidrsubnets("255.255.255.0/24", 1, 1, 1)`, badArgument,
			"no room left", ""},
		"IPv4 inside IPv6": {`cidrcontains("::/0", "10.0.0.1")`, badCall,
			"one of ::/0 and 10.0.0.1 is IPv4", ""},
		"what is neither an address nor a prefix": {`cidrcontains("10.0.0.0/8", "x")`, badCall,
			`"x" is neither an IP address nor a prefix`, ""},
	}.prove(t, funcs.Options{})
}
