package funcs

import (
	"errors"
	"fmt"
	"math/big"
	"net"
	"strings"

	"github.com/apparentlymart/go-cidr/cidr"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/gocty"
)

// networks contains the functions on IP prefixes. For host and subnet numbers out of range they behave like go-cidr
// v1.1.0, which OpenTofu uses; later versions reject some of these numbers.
func networks() family {
	return family{
		"cidrcontains": {cidrContains(), "Tells whether an address or a smaller prefix lies inside an IP prefix."},
		"cidrhost": {cidrHost(), "Gives the address with a given number inside an IP prefix; negative numbers " +
			"count from the end."},
		"cidrnetmask": {cidrNetmask(), "Gives the netmask of an IPv4 prefix."},
		"cidrsubnet": {cidrSubnet(), "Gives the subnet with a given number inside an IP prefix that is extended by " +
			"a number of bits."},
		"cidrsubnets": {cidrSubnets(), "Lays out subnets of given sizes one after another inside an IP prefix."},
	}
}

func cidrHost() function.Function {
	return returning(cty.String, func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		var number *big.Int
		if err := gocty.FromCtyValue(args[1], &number); err != nil {
			return cty.NilVal, err
		}
		network, err := parseCIDR(args[0].AsString())
		if err != nil {
			return cty.NilVal, err
		}
		return fitting(func() (fmt.Stringer, error) { return cidr.HostBig(network, number) })
	}, plain("prefix", cty.String), plain("hostnum", cty.Number))
}

func cidrNetmask() function.Function {
	return returning(cty.String, func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		network, err := parseCIDR(args[0].AsString())
		if err != nil {
			return cty.NilVal, err
		}
		if network.IP.To4() == nil {
			return cty.NilVal, fmt.Errorf("only IPv4 has netmasks, and %s is an IPv6 prefix", args[0].AsString())
		}
		return cty.StringVal(net.IP(network.Mask).String()), nil
	}, plain("prefix", cty.String))
}

func cidrSubnet() function.Function {
	return returning(cty.String, func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		var bits int
		if err := gocty.FromCtyValue(args[1], &bits); err != nil {
			return cty.NilVal, err
		}
		var number *big.Int
		if err := gocty.FromCtyValue(args[2], &number); err != nil {
			return cty.NilVal, err
		}
		network, err := parseCIDR(args[0].AsString())
		if err != nil {
			return cty.NilVal, err
		}
		return fitting(func() (fmt.Stringer, error) { return cidr.SubnetBig(network, bits, number) })
	}, plain("prefix", cty.String), plain("newbits", cty.Number), plain("netnum", cty.Number))
}

// fitting returns the result of a go-cidr function. For some numbers that are too large for an address, go-cidr
// panics with an index out of range instead of returning an error.
func fitting(compute func() (fmt.Stringer, error)) (v cty.Value, err error) {
	defer func() {
		if recover() != nil {
			v, err = cty.NilVal, errors.New("the number is too great for an IP address")
		}
	}()
	out, err := compute()
	if err != nil {
		return cty.NilVal, err
	}
	return cty.StringVal(out.String()), nil
}

// maxExtension is the maximum number of bits that cidrsubnets can add to a prefix. It is OpenTofu's limit.
const maxExtension = 32

func cidrSubnets() function.Function {
	newbits := plain("newbits", cty.Number)
	return function.New(&function.Spec{
		Params:       []function.Parameter{plain("prefix", cty.String)},
		VarParam:     &newbits,
		Type:         function.StaticReturnType(cty.List(cty.String)),
		RefineResult: notNull,
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			network, err := parseCIDR(args[0].AsString())
			if err != nil {
				return cty.NilVal, function.NewArgError(0, err)
			}
			taken, size := network.Mask.Size()
			var subnets []cty.Value
			var last *net.IPNet
			for i, arg := range args[1:] {
				var bits int
				if err := gocty.FromCtyValue(arg, &bits); err != nil {
					return cty.NilVal, function.NewArgError(i+1, err)
				}
				if most := min(size-taken, maxExtension); bits < 1 || bits > most {
					return cty.NilVal, function.NewArgErrorf(i+1, "a prefix of %d bits can be extended by 1 to %d "+
						"bits, not by %d", taken, most, bits)
				}
				length := taken + bits
				if last == nil {
					last, _ = cidr.PreviousSubnet(network, length)
				}
				next, wrapped := cidr.NextSubnet(last, length)
				if wrapped || !network.Contains(next.IP) {
					return cty.NilVal, function.NewArgErrorf(i+1, "after %s there is no room left in %s for a prefix "+
						"of %d bits", last, network, length)
				}
				subnets = append(subnets, cty.StringVal(next.String()))
				last = next
			}
			if len(subnets) == 0 {
				return cty.ListValEmpty(cty.String), nil
			}
			return cty.ListVal(subnets), nil
		},
	})
}

func cidrContains() function.Function {
	return returning(cty.Bool, func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		outer, err := parseCIDR(args[0].AsString())
		if err != nil {
			return cty.NilVal, err
		}
		text := args[1].AsString()
		first := net.ParseIP(withoutZeros(text))
		last := first
		if first == nil {
			inner, err := parseCIDR(text)
			if err != nil {
				return cty.NilVal, fmt.Errorf("%q is neither an IP address nor a prefix", text)
			}
			first, last = cidr.AddressRange(inner)
		}
		if (first.To4() == nil) != (outer.IP.To4() == nil) {
			return cty.NilVal, fmt.Errorf("one of %s and %s is IPv4 and the other IPv6", args[0].AsString(), text)
		}
		return cty.BoolVal(outer.Contains(first) && outer.Contains(last)), nil
	}, plain("containing_prefix", cty.String), plain("contained_ip_or_prefix", cty.String))
}

// parseCIDR parses a prefix such as 192.0.2.0/24 or 2001:db8::/32.
//
// Unlike the standard library since Go 1.17 it accepts leading zeros and reads them as decimal: configurations that
// were written before rely on it.
func parseCIDR(s string) (*net.IPNet, error) {
	addr, length, _ := strings.Cut(s, "/")
	_, network, err := net.ParseCIDR(withoutZeros(addr) + "/" + length)
	if err != nil {
		return nil, fmt.Errorf("%q is not an IP address followed by a slash and a prefix length", s)
	}
	return network, nil
}

// withoutZeros removes the leading zeros from each part of an address.
func withoutZeros(addr string) string {
	var b strings.Builder
	start := true // of a part
	for i := range len(addr) {
		c := addr[i]
		separator := c == '.' || c == ':'
		if start && c == '0' && i+1 < len(addr) && addr[i+1] != '.' && addr[i+1] != ':' {
			continue
		}
		b.WriteByte(c)
		start = separator
	}
	return b.String()
}
