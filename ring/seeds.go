package ring

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// dnsPrefix marks a seed whose name stands for all addresses that it resolves
// to.
const dnsPrefix = "dns+"

// lookupTimeout bounds one look-up of one seed.
const lookupTimeout = 2 * time.Second

// CheckSeeds reports a seed that is none: neither host:port nor dns+name:port.
func CheckSeeds(seeds []string) error {
	for _, seed := range seeds {
		host, port, err := net.SplitHostPort(strings.TrimPrefix(seed, dnsPrefix))
		if err != nil || host == "" || strings.ContainsAny(host, " \t\n") {
			return fmt.Errorf("ring: seed %q: host:port or dns+name:port is wanted", seed)
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return fmt.Errorf("ring: seed %q: the port %q is no number of 1 to 65535", seed, port)
		}
	}
	return nil
}

// lookup resolves a host name to its addresses.
type lookup func(ctx context.Context, host string) ([]string, error)

// resolveSeeds returns the addresses, ip:port, that the seeds stand for now.
// Names are looked up anew each time. A seed that does not resolve now may do
// so later, so its error is returned beside the others' addresses.
func resolveSeeds(ctx context.Context, seeds []string, look lookup) (addresses []string, err error) {
	for _, seed := range seeds {
		name, all := strings.CutPrefix(seed, dnsPrefix)
		host, port, splitErr := net.SplitHostPort(name)
		if splitErr != nil {
			continue // CheckSeeds has refused it
		}
		if net.ParseIP(host) != nil {
			addresses = append(addresses, net.JoinHostPort(host, port))
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
		ips, lookErr := look(ctx, host)
		cancel()
		switch {
		case lookErr != nil:
			err = fmt.Errorf("ring: seed %q: %w", seed, lookErr)
			continue
		case len(ips) == 0:
			err = fmt.Errorf("ring: seed %q: the name has no address", seed)
			continue
		}
		if !all {
			ips = ips[:1]
		}
		for _, ip := range ips {
			addresses = append(addresses, net.JoinHostPort(ip, port))
		}
	}
	return addresses, err
}

// missing returns those of the wanted addresses that are neither known nor given
// twice.
func missing(wanted []string, known map[string]bool) []string {
	var out []string
	seen := make(map[string]bool)
	for _, address := range wanted {
		if !known[address] && !seen[address] {
			seen[address] = true
			out = append(out, address)
		}
	}
	return out
}
