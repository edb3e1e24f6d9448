// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"

	"github.com/go-git/go-git/v5/plumbing/transport"
	gitssh "github.com/go-git/go-git/v5/plumbing/transport/ssh"
	"golang.org/x/crypto/ssh"

	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/oci"
)

// SSHKey is used by a Git to read repositories over ssh, in place of the user's
// agent and known hosts.
type SSHKey struct {
	signer     ssh.Signer
	callback   ssh.HostKeyCallback
	algorithms func(address string) []string
}

// maxKnownHosts bounds a file of known hosts, in bytes.
const maxKnownHosts = 1 << 20

// ParseSSHKey parses a private key without passphrase, and the keys of the
// allowed hosts in the format of ssh-keyscan.
func ParseSSHKey(pem, knownHosts []byte) (_ *SSHKey, err error) {
	if len(pem) > maxKnownHosts || len(knownHosts) > maxKnownHosts {
		return nil, fmt.Errorf("more than %d bytes: %w", maxKnownHosts, oci.ErrTooLarge)
	}
	signer, err := ssh.ParsePrivateKey(pem)
	if err != nil {
		return nil, errors.New("the ssh key is not a PEM private key without passphrase") // err may contain the key
	}
	dir, remove, err := files.TempDir("") // the library accepts only files
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	file := filepath.Join(dir, "known_hosts")
	if err := os.WriteFile(file, knownHosts, 0o600); err != nil {
		return nil, err
	}
	known, err := gitssh.NewKnownHostsDb(file)
	if err != nil {
		return nil, errors.New("the known hosts of the ssh key must be lines as printed by ssh-keyscan")
	}
	return &SSHKey{signer: signer, callback: known.HostKeyCallback(), algorithms: known.HostKeyAlgorithms}, nil
}

func (k *SSHKey) publicKeyAuth(user, address string) transport.AuthMethod {
	verify := func(_ string, _ net.Addr, key ssh.PublicKey) error { return k.callback(address, &net.TCPAddr{}, key) }
	return &gitssh.PublicKeys{
		User: cmp.Or(user, "git"), Signer: k.signer,
		HostKeyCallbackHelper: gitssh.HostKeyCallbackHelper{HostKeyCallback: verify, HostKeyAlgorithms: k.algorithms(address)},
	}
}

// reachRepository returns the address and the authentication for a repository. For ssh
// with a key, the address is a local port that is forwarded through the guard,
// because the library offers no control over its connections.
func (g *Git) reachRepository(ctx context.Context, l Location) (where string, auth transport.AuthMethod, done func(), err error) {
	if g.SSH == nil || l.URL.Scheme != "ssh" {
		return l.URL.String(), g.basicAuth(l), func() {}, nil
	}
	address := net.JoinHostPort(l.URL.Hostname(), cmp.Or(l.URL.Port(), "22"))
	local, done, err := g.openTunnel(ctx, address)
	if err != nil {
		return "", nil, nil, fmt.Errorf("%w: %w", err, oci.ErrUnavailable)
	}
	user := l.URL.User.Username()
	u := &url.URL{Scheme: "ssh", User: url.User(cmp.Or(user, "git")), Host: local, Path: l.URL.Path}
	return u.String(), g.SSH.publicKeyAuth(user, address), done, nil
}

// openTunnel forwards connections to address through the guard, until done is called or ctx ends.
func (g *Git) openTunnel(ctx context.Context, address string) (local string, done func(), err error) {
	dial := (&net.Dialer{}).DialContext
	if g.Guard != nil {
		dial = g.Guard.Dial
	}
	ctx, cancel := context.WithCancel(ctx)
	first, err := dial(ctx, "tcp", address)
	if err != nil {
		cancel()
		return "", nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		cancel()
		return "", nil, errors.Join(err, first.Close())
	}
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	go func() {
		out := first
		for {
			in, err := listener.Accept()
			if err != nil {
				if out != nil {
					_ = out.Close()
				}
				return
			}
			if out == nil {
				if out, err = dial(ctx, "tcp", address); err != nil {
					_ = in.Close()
					continue
				}
			}
			go g.forward(ctx, in, out)
			out = nil
		}
	}()
	return listener.Addr().String(), cancel, nil
}

// forward copies until either side or ctx ends, or too many bytes were received.
func (g *Git) forward(ctx context.Context, in, out net.Conn) {
	end := func() {
		_ = in.Close()
		_ = out.Close()
	}
	stop := context.AfterFunc(ctx, end)
	defer stop()
	go func() {
		defer end()
		_, _ = io.Copy(out, in)
	}()
	defer end()
	_, _ = io.Copy(in, io.LimitReader(out, g.maxBytes()))
}
