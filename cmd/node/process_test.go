package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gofrs/flock"
)

// daemon is the program in a process of its own.
type daemon struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout *output
	stderr *output
	exited chan struct{}
}

// output is what a process has written so far.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func start(t *testing.T, env []string, args ...string) *daemon {
	t.Helper()
	return startBehind(t, nil, env, args...)
}

// startBehind starts a daemon behind a command that becomes it.
func startBehind(t *testing.T, command, env []string, args ...string) *daemon {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	line := append(append(append([]string{}, command...), exe), args...)
	d := &daemon{t: t, cmd: exec.Command(line[0], line[1:]...), stdout: new(output), stderr: new(output), exited: make(chan struct{})}
	d.cmd.Env = append(append(os.Environ(), asDaemon+"=1"), env...)
	d.cmd.Stdout, d.cmd.Stderr = d.stdout, d.stderr
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(d.exited)
		d.cmd.Wait() // its status is read from ProcessState
	}()
	t.Cleanup(func() {
		d.cmd.Process.Kill()
		<-d.exited
		if t.Failed() {
			t.Logf("%v\nstdout: %s\nstderr: %s", args, d.stdout, d.stderr)
		}
	})
	return d
}

// wait returns the exit status.
func (d *daemon) wait() int {
	d.t.Helper()
	select {
	case <-d.exited:
	case <-time.After(60 * time.Second):
		d.t.Fatal("the process has not ended in 60 s")
	}
	return d.cmd.ProcessState.ExitCode()
}

func (d *daemon) ready() {
	d.t.Helper()
	eventually(d.t, "the process prints its ready line", func() bool {
		select {
		case <-d.exited:
			d.t.Fatalf("ended with %d: %s", d.cmd.ProcessState.ExitCode(), d.stderr)
		default:
		}
		return strings.Contains(d.stdout.String(), " ready ")
	})
}

// loopback returns addresses that nobody else uses: one network for each test,
// one host for each node.
type loopbackNet struct{ a, b int }

// addresses says where nodes listen.
type addresses interface {
	at(node, port int) string
	flags(node int, more ...string) []string
}

func newLoopbackNet() loopbackNet { return loopbackNet{10 + rand.IntN(200), 1 + rand.IntN(250)} }

func (l loopbackNet) at(node, port int) string {
	return fmt.Sprintf("127.%d.%d.%d:%d", l.a, l.b, node, port)
}

func (l loopbackNet) flags(node int, more ...string) []string {
	return append([]string{
		"--http", l.at(node, 8080), "--admin", l.at(node, 8081), "--gossip", l.at(node, 7946), "--rpc", l.at(node, 7947),
	}, more...)
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(body)
}

// Three processes, started in any order, one of them before its seeds: they
// become one cluster, whose nodes all decide alike, and stop when told to.
func TestThreeProcesses(t *testing.T) {
	for _, order := range [][]int{{1, 2, 3}, {3, 1, 2}, {2, 3, 1}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			t.Parallel()
			l := newLoopbackNet()
			// Node 1 knows 2, node 2 knows 3, and node 3 knows 1: whoever is
			// first finds no seed.
			daemons := map[int]*daemon{}
			for _, node := range order {
				d := start(t, nil, l.flags(node, "--join", l.at(node%3+1, 7946), "--join-timeout", "500ms", "--forward-timeout", "5s")...)
				d.ready()
				daemons[node] = d
				want := fmt.Sprintf("weir %s ready http=%s admin=%s gossip=%s rpc=%s\n",
					l.at(node, 7946), l.at(node, 8080), l.at(node, 8081), l.at(node, 7946), l.at(node, 7947))
				same(t, "ready line", d.stdout.String(), want)
			}
			eventually(t, "each sees three active members, and the same epoch", func() bool {
				epochs := map[string]bool{}
				for node := 1; node <= 3; node++ {
					status, body := get(t, "http://"+l.at(node, 8081)+"/v1/cluster")
					if status != 200 || strings.Count(body, `"state": "active"`) != 3 {
						return false
					}
					var c struct{ Epoch string }
					if err := json.Unmarshal([]byte(body), &c); err != nil {
						t.Fatalf("%v in %s", err, body)
					}
					epochs[c.Epoch] = true
				}
				return len(epochs) == 1
			})
			// Whichever node is asked, it is one bucket of five a minute.
			ask := func(node int) answered {
				resp, err := http.Post("http://"+l.at(node, 8080)+"/v1/decide", "application/json",
					strings.NewReader(`{"route":"POST /auth/forgot","caller":{"ip":"192.0.2.1"}}`))
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				body, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Fatal(err)
				}
				return parse[answered](t, string(body))
			}
			refused := 0
			for i := range 9 {
				a := ask(i%3 + 1)
				if a.Degraded {
					t.Fatalf("request %d is degraded", i)
				}
				if !a.Allowed {
					refused++
				}
			}
			// A unit drains in twelve seconds: a slow machine may let one more in.
			if refused < 2 || refused > 4 {
				t.Fatalf("of nine requests at once %d are refused, want 4", refused)
			}
			for node := 1; node <= 3; node++ {
				if status, body := get(t, "http://"+l.at(node, 8080)+"/readyz"); status != 200 {
					t.Fatalf("node %d: %d %s", node, status, body)
				}
			}
			for node, d := range daemons {
				if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
					t.Fatalf("node %d: %v", node, err)
				}
			}
			for node, d := range daemons { // all at once: nobody is left to say goodbye to
				if status := d.wait(); status != exitOK {
					t.Errorf("node %d exits with %d after SIGTERM", node, status)
				}
			}
			http.DefaultClient.CloseIdleConnections()
		})
	}
}

// A start that cannot be ends with one clear line and status 2.
func TestBadStarts(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { busy.Close() }) // after the parallel parts
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("version: 1\nbuckets:\n  a: {limit: 1.5, window: 1s}\n  b: {limit: 1, window: 1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	taken := filepath.Join(t.TempDir(), "taken")
	lock := flock.New(taken + ".lock")
	if locked, err := lock.TryLock(); err != nil || !locked {
		t.Fatal(locked, err)
	}
	t.Cleanup(func() { lock.Close() })
	ports := []string{"--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--gossip", "127.0.0.1:0", "--rpc", "127.0.0.1:0"}
	for _, c := range []struct {
		name string
		env  []string
		args []string
		says string
	}{
		{"unknown flag", nil, []string{"--nope"}, "--nope"},
		{"unknown command", nil, []string{"start"}, "start"},
		{"bad duration", nil, []string{"--join-timeout", "soon"}, "--join-timeout"},
		{"negative duration", nil, []string{"--join-timeout=-1s"}, "--join-timeout"},
		{"bad duration in the environment", []string{"WEIR_FORWARD_TIMEOUT=x"}, nil, "--forward-timeout"},
		{"bad level", nil, []string{"--log-level", "loud"}, "--log-level"},
		{"bad format", nil, []string{"--log-format", "xml"}, "--log-format"},
		{"no port", nil, []string{"--http", "127.0.0.1"}, "--http"},
		{"busy port", nil, append(append([]string{}, ports...), "--http", busy.Addr().String()), "--http"},
		{"unspecified without advertise", nil, []string{"--http", "0.0.0.0:0"}, "--advertise"},
		{"gossip beyond loopback", nil, []string{"--gossip", "192.0.2.1:7946"}, "--gossip"},
		{"rpc beyond loopback", nil, []string{"--advertise", "192.0.2.1", "--rpc", "0.0.0.0:7947"}, "--insecure"},
		{"admin beyond loopback", nil, []string{"--advertise", "192.0.2.1", "--admin", ":8081"}, "--admin"},
		{"no policy file", nil, append(append([]string{}, ports...), "--policy", "no-such-file.yaml"), "no-such-file.yaml"},
		{"bad policy", nil, append(append([]string{}, ports...), "--policy", bad), bad + ":3"},
		{"long label", nil, append(append([]string{}, ports...), "--cluster", strings.Repeat("x", 300)), "--cluster"},
		{"long name", nil, append(append([]string{}, ports...), "--name", strings.Repeat("x", 300)), "--name"},
		{"unprintable name", nil, append(append([]string{}, ports...), "--name", "a\nb"), "--name"},
		{"seed with a bad port", nil, append(append([]string{}, ports...), "--join", "127.0.0.1:abc"), "--join"},
		{"seed with a port beyond all", nil, append(append([]string{}, ports...), "--join", "127.0.0.1:99999"), "--join"},
		{"unspecified advertise", nil, append(append([]string{}, ports...), "--advertise", "0.0.0.0"), "--advertise"},
		{"advertise with a port", nil, append(append([]string{}, ports...), "--advertise", "10.0.0.1:7946"), "--advertise"},
		{"zone", nil, []string{"--gossip", "[::1%lo]:0"}, "--gossip"},
		{"drain delay beyond the timeout", nil, []string{"--drain-delay", "30s"}, "--drain-timeout"},
		{"snapshot in no directory", nil, append(append([]string{}, ports...), "--snapshot", filepath.Join(bad, "weir")), "--snapshot"},
		{"snapshot of another node", nil, append(append([]string{}, ports...), "--snapshot", taken), "--snapshot: " + taken + " is in use"},
		{"bad seed", nil, append(append([]string{}, ports...), "--join", "nowhere"), "--join"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := start(t, c.env, c.args...)
			if status := d.wait(); status != exitUsage {
				t.Errorf("exits with %d, want 2", status)
			}
			lines := strings.Split(strings.TrimSuffix(d.stderr.String(), "\n"), "\n")
			last := lines[len(lines)-1]
			if !strings.HasPrefix(last, "weir: ") || !strings.Contains(last, c.says) {
				t.Errorf("says %q, which is to name %s", last, c.says)
			}
			for _, line := range lines[:len(lines)-1] {
				if !strings.Contains(line, "level=WARN") {
					t.Errorf("more than one line: %q", line)
				}
			}
			if d.stdout.String() != "" {
				t.Errorf("prints %q", d.stdout)
			}
		})
	}
}

// The environment says the same as flags; SIGHUP harms nothing; a second signal
// ends at once.
func TestEnvironmentAndSignals(t *testing.T) {
	t.Parallel()
	l := newLoopbackNet()
	d := start(t, []string{
		"WEIR_NAME=lone", "WEIR_HTTP=" + l.at(1, 8080), "WEIR_ADMIN=" + l.at(1, 8081),
		"WEIR_GOSSIP=" + l.at(1, 7946), "WEIR_RPC=" + l.at(1, 7947), "WEIR_DRAIN_DELAY=1h", "WEIR_DRAIN_TIMEOUT=2h",
	})
	d.ready()
	if !strings.HasPrefix(d.stdout.String(), "weir lone ready http="+l.at(1, 8080)) {
		t.Errorf("prints %q", d.stdout)
	}
	if err := d.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it says that nothing is reloaded", func() bool { return strings.Contains(d.stderr.String(), "SIGHUP") })
	if status, body := get(t, "http://"+l.at(1, 8080)+"/readyz"); status != http.StatusOK {
		t.Errorf("after SIGHUP: %d %s", status, body)
	}
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is unready, and answers still", func() bool {
		status, _ := get(t, "http://"+l.at(1, 8080)+"/readyz")
		return status == http.StatusServiceUnavailable
	})
	if status, _ := get(t, "http://"+l.at(1, 8080)+"/healthz"); status != http.StatusOK {
		t.Errorf("healthz while draining: %d", status)
	}
	if err := d.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if status := d.wait(); status != exitFailed {
		t.Errorf("exits with %d, want 1", status)
	}
}

// A name belongs to an address as long as its node lives.
func TestNameTaken(t *testing.T) {
	t.Parallel()
	l := newLoopbackNet()
	first := start(t, nil, l.flags(1, "--name", "twin")...)
	first.ready()
	second := start(t, nil, l.flags(2, "--name", "twin", "--join", l.at(1, 7946))...)
	if status := second.wait(); status != exitUsage {
		t.Errorf("exits with %d, want 2", status)
	}
	if says := second.stderr.String(); !strings.Contains(says, "twin") || !strings.Contains(says, l.at(1, 7946)) {
		t.Errorf("says %q, which is to name the name and the address that has it", says)
	}
	if status, body := get(t, "http://"+l.at(1, 8081)+"/v1/cluster"); status != http.StatusOK ||
		strings.Count(body, `"state": `) != 1 || strings.Count(body, `"state": "active"`) != 1 {
		t.Errorf("the one that has the name sees %d %s", status, body)
	}
}

func TestPolicyCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "bad.yaml")
	const text = "version: 1\nbuckets:\n  a: {limit: 1, window: 1s}\nroutes:\n  GET /a: [a]\n"
	if err := os.WriteFile(good, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(bad, []byte(strings.Replace(text, "[a]", "[b]", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	check := func(status int, stdout, stderr string, args ...string) {
		t.Helper()
		d := start(t, nil, args...)
		if got := d.wait(); got != status {
			t.Errorf("%v: exits with %d, want %d", args, got, status)
		}
		if got := d.stdout.String(); !strings.Contains(got, stdout) {
			t.Errorf("%v: prints %.200q, want %q", args, got, stdout)
		}
		if got := d.stderr.String(); !strings.Contains(got, stderr) {
			t.Errorf("%v: says %.200q, want %q", args, got, stderr)
		}
	}
	check(exitOK, good+": good: buckets 1, routes 1, hash ", "", "policy", "check", good)
	check(exitUsage, "", bad+":5: ", "policy", "check", bad)
	check(exitUsage, "", "missing.yaml", "policy", "check", filepath.Join(dir, "missing.yaml"))
	check(exitOK, text, "", "policy", "show", "--policy", good)
	check(exitOK, `"guild:emojis:list::guild_id"`, "", "policy", "show")
	check(exitOK, "weir ", "", "version")
	check(exitOK, "--join-timeout", "", "serve", "--help")
}
