package unruly

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// spoilHandshake replaces the handshake as UNRULY_HANDSHAKE requests, and reports whether it did: then the process must
// end. "late:DURATION" waits before a proper handshake.
func spoilHandshake(how string) (spoiled bool, err error) {
	how, after, _ := strings.Cut(how, ":")
	switch how {
	case "":
		return false, nil
	case "late":
		d, err := time.ParseDuration(after)
		if err != nil {
			return true, fmt.Errorf("the delay of the handshake: %w", err)
		}
		time.Sleep(d)
		return false, nil
	case "hang": // no line, no end
		time.Sleep(24 * time.Hour)
	case "exit": // no line
		fmt.Fprintln(os.Stderr, "unruly: no mood for a handshake")
		os.Exit(1)
	case "garbage":
		fmt.Println("this is no handshake")
	case "core": // a version of go-plugin's own protocol that nobody knows
		fmt.Println("9|6|tcp|127.0.0.1:1|grpc|")
	case "protocol": // a version of the provider protocol that nobody knows
		fmt.Println("1|99|tcp|127.0.0.1:1|grpc|")
	case "netrpc": // not gRPC
		fmt.Println("1|6|tcp|127.0.0.1:1|netrpc|")
	case "dead": // an address at which nobody listens
		fmt.Println("1|6|unix|/nonexistent/unruly.sock|grpc|")
		time.Sleep(24 * time.Hour)
	default:
		return true, fmt.Errorf("the environment's UNRULY_HANDSHAKE is %q, which is unknown", how)
	}
	return true, nil
}
