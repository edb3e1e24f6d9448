// SPDX-License-Identifier: Apache-2.0

package upstream_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
)

func newSSHKey(t *testing.T) (text []byte, signer ssh.Signer) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block := must.Get(ssh.MarshalPrivateKey(key, ""))(t)
	if signer, err = ssh.NewSignerFromKey(key); err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(block), signer
}

// sshd serves git repositories to clients with one key.
type sshd struct {
	address string
	host    ssh.Signer

	mu    sync.Mutex
	users []string
}

func newSSHD(t *testing.T, client ssh.PublicKey) *sshd {
	t.Helper()
	_, host := newSSHKey(t)
	s := &sshd{host: host}
	config := &ssh.ServerConfig{PublicKeyCallback: func(meta ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if string(key.Marshal()) != string(client.Marshal()) {
			return nil, errors.New("another key")
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.users = append(s.users, meta.User())
		return nil, nil
	}}
	config.AddHostKey(host)
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(func() {
		cancel()
		listener.Close()
		running.Wait()
	})
	s.address = listener.Addr().String()
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { serveSSH(ctx, conn, config) })
		}
	})
	return s
}

func serveSSH(ctx context.Context, conn net.Conn, config *ssh.ServerConfig) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for c := range channels {
		channel, requests, err := c.Accept()
		if err != nil {
			return
		}
		for r := range requests {
			if r.Type != "exec" {
				_ = r.Reply(false, nil)
				continue
			}
			_ = r.Reply(true, nil)
			path := strings.Trim(strings.TrimPrefix(string(r.Payload[4:]), "git-upload-pack "), "'")
			cmd := exec.CommandContext(ctx, "git", "upload-pack", path)
			cmd.Stdin, cmd.Stdout = channel, channel
			status := byte(0)
			if cmd.Run() != nil {
				status = 1
			}
			_, _ = channel.SendRequest("exit-status", false, []byte{0, 0, 0, status})
			channel.Close()
		}
	}
}

// knownLine returns the line of a server in a file of known hosts.
func knownLine(address string, key ssh.PublicKey) []byte {
	host, port, _ := net.SplitHostPort(address)
	return []byte("[" + host + "]:" + port + " " + string(ssh.MarshalAuthorizedKey(key)))
}

// Shows: operator 11
func TestGitOverSSH(t *testing.T) {
	repo, commits := newGitRepo(t, "v1.0.0")
	text, signer := newSSHKey(t)
	server := newSSHD(t, signer.PublicKey())
	l := must.Get(upstream.ParseLocation("git::ssh://git@" + server.address + repo.URL.Path))(t)
	key := must.Get(upstream.ParseSSHKey(text, knownLine(server.address, server.host.PublicKey())))(t)
	g := upstream.Git{SSH: key, Guard: upstream.NewGuard([]string{server.address})}
	tags, err := g.Tags(t.Context(), l)
	if err != nil || len(tags) != 1 || tags[0].Name != "v1.0.0" {
		t.Fatalf("tags %v, %v", tags, err)
	}
	l.Ref = "v1.0.0"
	dir := t.TempDir()
	commit, err := g.Checkout(t.Context(), l, dir)
	if err != nil || commit != tags[0].Commit || commit != commits[0] {
		t.Fatalf("commit %s, %v", commit, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "main.tf")); err != nil {
		t.Error(err)
	}

	g.MaxBytes = 100
	if _, err := g.Checkout(t.Context(), l, t.TempDir()); err == nil {
		t.Error("more came over ssh than may")
	}
	g.MaxBytes = 0
	g.Guard = upstream.NewGuard(nil)
	if _, err := g.Tags(t.Context(), l); !errors.Is(err, oci.ErrDenied) {
		t.Errorf("an address inside: %v", err)
	}
	server.mu.Lock()
	users := len(server.users)
	server.mu.Unlock()
	g.Guard = nil
	_, stranger := newSSHKey(t)
	if g.SSH, err = upstream.ParseSSHKey(text, knownLine(server.address, stranger.PublicKey())); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Tags(t.Context(), l); err == nil {
		t.Error("a host with another key than is known")
	}
	if g.SSH, err = upstream.ParseSSHKey(text, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Tags(t.Context(), l); err == nil {
		t.Error("a host that nobody knows")
	}
	server.mu.Lock()
	defer server.mu.Unlock()
	if len(server.users) != users {
		t.Error("the key was shown to a host that is not known")
	}
}

func TestParseSSHKeyTellsNoSecret(t *testing.T) {
	for _, test := range [][2]string{{"-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n", ""}, {"secret", "x"}, {"", ""}} {
		if _, err := upstream.ParseSSHKey([]byte(test[0]), []byte(test[1])); err == nil || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "c2Vj") {
			t.Errorf("got %v", err)
		}
	}
	text, _ := newSSHKey(t)
	if _, err := upstream.ParseSSHKey(text, []byte("host ssh-ed25519 secret\n")); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
	if _, err := upstream.ParseSSHKey(make([]byte, 2<<20), nil); !errors.Is(err, oci.ErrTooLarge) {
		t.Errorf("got %v", err)
	}
}
