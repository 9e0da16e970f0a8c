package main

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"weir/ring"
)

// commandLine is everything that can be typed after weir.
type commandLine struct {
	Serve   serveFlags `cmd:"" default:"withargs" help:"Run a node (the default)."`
	Policy  policyCmd  `cmd:"" help:"Work with policy files."`
	Version struct{}   `cmd:"" help:"Print the version."`
}

type policyCmd struct {
	Check struct {
		File string `arg:"" help:"Policy file."`
	} `cmd:"" help:"Check a policy file and say what is wrong with it."`
	Show struct {
		Policy string `help:"Policy file; the embedded default if not given." placeholder:"FILE"`
	} `cmd:"" help:"Print a policy as a node would load it."`
}

type serveFlags struct {
	Name           string        `help:"Unique member name. Default: the advertised gossip address." placeholder:"NAME"`
	HTTP           string        `name:"http" help:"Address of the HTTP API." default:"127.0.0.1:8080"`
	Admin          string        `help:"Address for metrics and operators." default:"127.0.0.1:8081"`
	Gossip         string        `help:"Address for membership gossip, TCP and UDP." default:"127.0.0.1:7946"`
	RPC            string        `name:"rpc" help:"Address for calls from node to node." default:"127.0.0.1:7947"`
	Advertise      string        `help:"Host that others reach this node at; required if an address is unspecified." placeholder:"HOST"`
	Join           []string      `help:"Seeds: host:port, or dns+name:port, which is looked up again and again." placeholder:"SEED,..."`
	JoinTimeout    time.Duration `help:"If no seed answers for this long, serve alone and keep trying." default:"10s"`
	Cluster        string        `help:"Label of the cluster; others never merge with it." default:"weir"`
	Policy         string        `help:"Policy file; the embedded default if not given." placeholder:"FILE"`
	ForwardTimeout time.Duration `help:"Deadline of one call to an owner." default:"100ms"`
	Replicas       int           `help:"Backups of each partition: 0 or 1." default:"1"`
	Snapshot       string        `help:"File to save the state to, now and then and at the end, and to load it from at the start." placeholder:"FILE"`
	DrainDelay     time.Duration `help:"Stay unready this long before leaving." default:"0s"`
	DrainTimeout   time.Duration `help:"Bound on the whole stop." default:"20s"`
	Insecure       bool          `help:"Allow gossip, node-to-node and admin addresses beyond loopback without protection."`
	LogFormat      string        `help:"text or json." enum:"text,json" default:"text"`
	LogLevel       slog.Level    `help:"debug, info, warn or error." default:"info"`
}

// parseFlags returns the command that was asked for, or "" if help was and has
// been written. Every flag is also read from WEIR_ and its name.
func parseFlags(args []string, stdout io.Writer) (command string, line *commandLine, err error) {
	line = new(commandLine)
	helped := false
	parser, err := kong.New(line,
		kong.Name("weir"),
		kong.Description("A distributed in-memory rate limiter. Every flag may also be given as WEIR_ and its name, as in WEIR_JOIN_TIMEOUT."),
		kong.DefaultEnvars("WEIR"),
		kong.Writers(stdout, io.Discard),
		kong.Exit(func(int) { helped = true }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	)
	if err != nil {
		return "", nil, err
	}
	ctx, err := parser.Parse(args)
	switch {
	case helped:
		return "", line, nil
	case err != nil:
		return "", nil, err
	}
	return ctx.Command(), line, nil
}

// config checks what no type could and returns the node's configuration.
func (f *serveFlags) config(stderr io.Writer) (Config, error) {
	log := newLogger(stderr, f.LogFormat, f.LogLevel)
	if f.Advertise != "" {
		if err := checkHost(f.Advertise); err != nil {
			return Config{}, fmt.Errorf("--advertise: %w", err)
		}
	}
	addresses := []struct{ flag, address string }{
		{"http", f.HTTP}, {"admin", f.Admin}, {"gossip", f.Gossip}, {"rpc", f.RPC},
	}
	var open []string
	for _, a := range addresses {
		host, _, err := net.SplitHostPort(a.address)
		if err != nil {
			return Config{}, fmt.Errorf("--%s: %w", a.flag, err)
		}
		if strings.Contains(host, "%") {
			return Config{}, fmt.Errorf("--%s: %s has a zone; use an address without", a.flag, a.address)
		}
		if unspecified(host) && f.Advertise == "" {
			return Config{}, fmt.Errorf("--advertise: required, since --%s %s is not an address that others can reach", a.flag, a.address)
		}
		if a.flag != "http" && !loopback(host) {
			if !f.Insecure {
				return Config{}, fmt.Errorf("--%s: %s is reachable beyond this machine, and this version has no protection for it; keep it on loopback, or allow it with --insecure", a.flag, a.address)
			}
			open = append(open, "--"+a.flag+" "+a.address)
		}
	}
	if len(open) > 0 {
		log.Warn("reachable beyond this machine without protection", "addresses", strings.Join(open, ", "))
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
		least time.Duration
	}{
		{"join-timeout", f.JoinTimeout, 0}, {"forward-timeout", f.ForwardTimeout, time.Millisecond},
		{"drain-delay", f.DrainDelay, 0}, {"drain-timeout", f.DrainTimeout, time.Second},
	} {
		if d.value < d.least {
			return Config{}, fmt.Errorf("--%s: %s is below %s", d.flag, d.value, d.least)
		}
	}
	if f.DrainTimeout < f.DrainDelay+time.Second {
		return Config{}, fmt.Errorf("--drain-timeout: %s leaves no second to stop in after --drain-delay %s", f.DrainTimeout, f.DrainDelay)
	}
	if f.Replicas < 0 || f.Replicas > 1 {
		return Config{}, fmt.Errorf("--replicas: %d is neither 0 nor 1", f.Replicas)
	}
	if !ring.ValidName(f.Cluster) {
		return Config{}, fmt.Errorf("--cluster: a label of 1 to %d printable bytes is wanted", ring.MaxName)
	}
	if f.Name != "" && !ring.ValidName(f.Name) {
		return Config{}, fmt.Errorf("--name: at most %d printable bytes are wanted", ring.MaxName)
	}
	if err := ring.CheckSeeds(f.Join); err != nil {
		return Config{}, fmt.Errorf("--join: %w", err)
	}
	rules, warnings, err := loadPolicy(f.Policy)
	if err != nil {
		return Config{}, fmt.Errorf("--policy: %w", err)
	}
	if len(warnings) > 0 {
		log.Warn("weir policy check warns of this policy", "file", f.Policy, "warnings", len(warnings), "first", warnings[0].Text)
	}
	return Config{
		Name:           f.Name,
		HTTP:           f.HTTP,
		Admin:          f.Admin,
		Gossip:         f.Gossip,
		RPC:            f.RPC,
		Advertise:      f.Advertise,
		Join:           f.Join,
		JoinTimeout:    f.JoinTimeout,
		Cluster:        f.Cluster,
		Policy:         rules,
		ForwardTimeout: f.ForwardTimeout,
		Replicas:       f.Replicas,
		Snapshot:       f.Snapshot,
		DrainDelay:     f.DrainDelay,
		Version:        versionText(),
		Log:            log,
	}, nil
}

func unspecified(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "" || err == nil && addr.IsUnspecified()
}

// checkHost reports why others could not reach a node at the host.
func checkHost(host string) error {
	if unspecified(host) {
		return fmt.Errorf("%s is not an address that others can reach", host)
	}
	if _, err := netip.ParseAddr(host); err != nil && strings.ContainsAny(host, ":[]%/ ") {
		return fmt.Errorf("%q is no host; write a name or an IP address, without a port", host)
	}
	return nil
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

// oneLine puts an error of several lines on one, as a start that fails ends
// with exactly one.
func oneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' }), "; ")
}
