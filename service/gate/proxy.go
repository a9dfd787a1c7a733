package gate

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Proxies are the addresses of proxies that are trusted to name the client of a request, as ranges.
type Proxies []netip.Prefix

// ParseProxies parses a list of addresses and ranges, such as "10.0.0.0/8, 192.0.2.7", separated by commas.
func ParseProxies(text string) (out Proxies, err error) {
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		p, err := netip.ParsePrefix(part)
		if err != nil {
			a, err := netip.ParseAddr(part)
			if err != nil {
				return nil, fmt.Errorf("%q is neither an address nor a range of addresses, such as 10.0.0.0/8", part)
			}
			p = netip.PrefixFrom(a, a.BitLen())
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

func (p Proxies) trust(a netip.Addr) bool {
	return slices.ContainsFunc(p, func(r netip.Prefix) bool { return r.Contains(a) })
}

// fromClient returns a request with the address of its client: of a request that comes from a trusted proxy, the last
// address in X-Forwarded-For that is not a trusted proxy itself. Whatever stands before that address was written by
// the client, and means nothing.
func (p Proxies) fromClient(r *http.Request) *http.Request {
	peer, ok := parseAddress(r.RemoteAddr)
	if !ok || !p.trust(peer) {
		return r
	}
	client := peer
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		a, ok := parseAddress(strings.TrimSpace(hop))
		if !ok {
			break
		}
		if client = a; !p.trust(a) {
			break
		}
	}
	if client == peer {
		return r
	}
	r = r.WithContext(r.Context())
	r.RemoteAddr = netip.AddrPortFrom(client, 0).String()
	return r
}

// parseAddress parses an address with or without a port.
func parseAddress(text string) (netip.Addr, bool) {
	if at, err := netip.ParseAddrPort(text); err == nil {
		return at.Addr().Unmap(), true
	}
	a, err := netip.ParseAddr(strings.Trim(text, "[]"))
	return a.Unmap(), err == nil
}
