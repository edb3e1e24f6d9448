// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	attackedModule = "/v1/modules/net/vpc/aws/1.0.0"
	attackedUpload = "/v2/modules/net/vpc/aws/blobs/uploads/"
)

// attackMultipart sends 300 MiB as a file in a multipart form.
func attackMultipart(b *testing.B) damage {
	v := newServed(b)
	defer v.stop(0)
	const head = "--x\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\n"
	body := io.MultiReader(strings.NewReader(head), repeated("0123456789abcdef", 300<<20), strings.NewReader("\r\n--x--\r\n"))
	resp := from(b, 2).send(b, http.MethodPost, v.url+attackedUpload, "", body, "Content-Type", "multipart/form-data; boundary=x")
	return v.damage(fmt.Sprintf("300 MiB as a form, answer %d", statusOf(resp)))
}

// attackForms sends 60 forms of 9 MiB at once.
func attackForms(b *testing.B) damage {
	v := newServed(b)
	defer v.stop(0)
	a := from(b, 2)
	var running sync.WaitGroup
	for range 60 {
		running.Go(func() {
			statusOf(a.send(b, http.MethodPost, v.url+attackedUpload, "", repeated("0123456789abcdef", 9<<20), "Content-Type", "application/x-www-form-urlencoded"))
		})
	}
	running.Wait()
	return v.damage("60 forms of 9 MiB")
}

// attackNested publishes a module with one file of nested brackets.
func attackNested(b *testing.B) damage {
	v := newServed(b)
	defer v.stop(0)
	files := map[string]io.Reader{"main.tf": io.MultiReader(strings.NewReader("x = "), repeated("(", 500_000))}
	return v.publish(b, "zip", zipped(b, zip.Deflate, files))
}

// attackDirectories publishes a module whose 20 names imply 20,000 directories.
func attackDirectories(b *testing.B) damage {
	v := newServed(b)
	defer v.stop(0)
	var body bytes.Buffer
	compressed := gzip.NewWriter(&body)
	w := tar.NewWriter(compressed)
	for i := range 20 {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprintf("%d/", i) + strings.Repeat("d/", 1000) + "main.tf", Mode: 0o644}); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	if err := compressed.Close(); err != nil {
		b.Fatal(err)
	}
	o := v.publish(b, "tar.gz", &body)
	o.text += fmt.Sprintf("; %d MiB stayed", diskUsage(v.temp)>>20)
	return o
}

// attackIgnore publishes a module of 100 files with 1 MiB of short ignore rules.
func attackIgnore(b *testing.B) damage {
	v := newServed(b)
	defer v.stop(0)
	files := map[string]io.Reader{".tfignore": repeated("a*\n", 1<<20)}
	for i := range 100 {
		files[fmt.Sprintf("%d.tf", i)] = strings.NewReader("")
	}
	return v.publish(b, "zip", zipped(b, zip.Deflate, files))
}

func zipped(b *testing.B, method uint16, files map[string]io.Reader) *bytes.Buffer {
	b.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for name, content := range files {
		f, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: method})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(f, content); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	return &out
}

// publish sends a module that has to be refused.
func (v *victim) publish(b *testing.B, form string, body *bytes.Buffer) damage {
	b.Helper()
	size := body.Len()
	resp := from(b, 2).send(b, http.MethodPut, v.url+attackedModule+"?dry_run=true", serveToken, body)
	return v.damage(fmt.Sprintf("a %s of %d bytes, answer %d", form, size, statusOf(resp)))
}

// untilEnd waits for a command, ends it with SIGTERM when it takes too long, and then kills
// it if that fails.
func (v *victim) untilEnd(text string, within time.Duration) damage {
	select {
	case <-v.ended:
		text += "; ended by itself"
	case <-time.After(within):
		if v.stop(5 * time.Second) {
			text += "; ended when it was told to"
		} else {
			text += "; had to be killed"
		}
	}
	o := v.damage("")
	o.text = text + "\n" + v.log.String()
	return o
}

// attackStates stores a state of 500 MiB that compresses to a few KB, and reads it six times
// at once from a new process.
func attackStates(b *testing.B) damage {
	first := newServed(b)
	a := from(b, 2)
	const path, head = "/state/shop/default", `{"version":4,"serial":1,"lineage":"a","outputs":{},"resources":[`
	body := io.MultiReader(strings.NewReader(head), repeated(" ", 500<<20), strings.NewReader("]}"))
	login := "Basic " + base64.StdEncoding.EncodeToString([]byte("okara:"+serveToken))
	if status := statusOf(a.send(b, http.MethodPost, first.url+path, "", body, "Authorization", login, "Content-Type", "application/json")); status != http.StatusOK {
		b.Fatalf("the state was not stored: %d\n%s", status, first.log.String())
	}
	first.stop(time.Minute)
	v := serveOn(b, first.storage)
	defer v.stop(0)
	var running sync.WaitGroup
	var good atomic.Int32
	for range 6 {
		running.Go(func() {
			if statusOf(a.send(b, http.MethodGet, v.url+path, "", nil, "Authorization", login)) == http.StatusOK {
				good.Add(1)
			}
		})
	}
	running.Wait()
	o := v.damage(fmt.Sprintf("%d of 6 answered", good.Load()))
	o.disk = diskUsage(v.storage)
	return o
}

// attackWebhooks stalls in the bodies of 64 deliveries, while a real delivery comes from
// another address.
func attackWebhooks(b *testing.B) damage {
	config := writeFile(b, "okara.hcl", fmt.Appendf(nil, "github \"acme\" {\n  secret_files = [%q]\n  token_file = %q\n}\n",
		writeFile(b, "secret", []byte(hookSecret)), writeFile(b, "token", []byte(acmeToken))))
	v := newServed(b, "--config", config)
	defer v.stop(0)
	a, stalled := from(b, 2), make(chan struct{})
	var running sync.WaitGroup
	for range 64 {
		running.Go(func() {
			body, w := io.Pipe()
			running.Go(func() {
				_, _ = w.Write([]byte("{"))
				<-stalled
				w.Close()
			})
			statusOf(a.send(b, http.MethodPost, v.url+"/hooks/github", "", body, "Content-Type", "application/json", "X-Hub-Signature-256", "sha256="+strings.Repeat("0", 64)))
			body.Close()
		})
	}
	time.Sleep(time.Second) // until they have arrived
	status := deliver(b, v.url, "ping", "real", "{}")
	o := v.damage(fmt.Sprintf("a real delivery gets %d", status))
	close(stalled)
	running.Wait()
	return o
}

// attackLadder verifies a bundle of nine manifests, each of which lists the previous one a
// hundred times.
func attackLadder(b *testing.B) damage {
	var file bytes.Buffer
	w := tar.NewWriter(&file)
	add := func(name, text string) {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(text)), Mode: 0o644}); err != nil {
			b.Fatal(err)
		}
		if _, err := io.WriteString(w, text); err != nil {
			b.Fatal(err)
		}
	}
	blob := func(text, typ, more string) string {
		sum := sha256.Sum256([]byte(text))
		add("blobs/sha256/"+hex.EncodeToString(sum[:]), text)
		return fmt.Sprintf(`{"mediaType":%q,"digest":"sha256:%x","size":%d%s}`, typ, sum, len(text), more)
	}
	const index, image = "application/vnd.oci.image.index.v1+json", "application/vnd.oci.image.manifest.v1+json"
	empty := blob("{}", "application/vnd.oci.empty.v1+json", "")
	d := blob(`{"schemaVersion":2,"mediaType":"`+image+`","artifactType":"application/x-test","config":`+empty+`,"layers":[`+empty+`]}`, image, "")
	for i := range 8 {
		more := ""
		if i == 7 {
			more = `,"annotations":{"org.opencontainers.image.ref.name":"modules/net/vpc/aws:1.0.0"}`
		}
		d = blob(fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"manifests":[%s],"annotations":{"level":"%d"}}`, index, strings.TrimSuffix(strings.Repeat(d+",", 100), ","), i), index, more)
	}
	add("oci-layout", `{"imageLayoutVersion":"1.0.0"}`)
	add("index.json", `{"schemaVersion":2,"manifests":[`+d+`]}`)
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	return newVictim(b, "bundle", "verify", writeFile(b, "ladder.tar", file.Bytes())).untilEnd("nine manifests", 20*time.Second)
}

// attackDownloads starts 600 downloads from one address without reading them, while another
// client wants one.
func attackDownloads(b *testing.B) damage {
	v := newServed(b)
	defer v.stop(0)
	a, other := from(b, 2), from(b, 3)
	body := zipped(b, zip.Store, map[string]io.Reader{"main.tf": strings.NewReader(""), "large": io.LimitReader(rand.NewChaCha8([32]byte{}), 32<<20)})
	if status := statusOf(a.send(b, http.MethodPut, v.url+attackedModule, serveToken, body)); status != http.StatusCreated {
		b.Fatalf("the module was not published: %d\n%s", status, v.log.String())
	}
	resp := a.send(b, http.MethodGet, v.url+attackedModule+"/download", serveToken, nil)
	if resp == nil {
		b.Fatal("no answer")
	}
	resp.Body.Close()
	at, err := resp.Request.URL.Parse(resp.Header.Get("X-Terraform-Get"))
	if err != nil {
		b.Fatal(err)
	}
	link, _, _ := strings.Cut(at.String(), "//*?")
	var got atomic.Int32
	var running sync.WaitGroup
	for range 600 {
		running.Go(func() {
			if resp := a.send(b, http.MethodGet, link, "", nil); resp != nil && resp.StatusCode == http.StatusOK {
				got.Add(1)
				b.Cleanup(func() { resp.Body.Close() })
			} else if resp != nil {
				resp.Body.Close()
			}
		})
	}
	running.Wait()
	status := 0
	if resp := other.send(b, http.MethodGet, link, "", nil); resp != nil {
		resp.Body.Close()
		status = resp.StatusCode
	}
	return v.damage(fmt.Sprintf("%d of 600 began; another client gets %d", got.Load(), status))
}

// attackReaders requests a state of 12 MiB twelve times and reads nothing for 130 seconds.
func attackReaders(b *testing.B) damage {
	v := newServed(b)
	defer v.stop(0)
	a := from(b, 2)
	const path = "/state/shop/default"
	login := "Basic " + base64.StdEncoding.EncodeToString([]byte("okara:"+serveToken))
	if status := statusOf(a.send(b, http.MethodPost, v.url+path, "", strings.NewReader(largeState(1, 12<<20)), "Authorization", login, "Content-Type", "application/json")); status != http.StatusOK {
		b.Fatalf("the state was not stored: %d\n%s", status, v.log.String())
	}
	var running sync.WaitGroup
	var held atomic.Int32
	begin := time.Now()
	for range 12 {
		running.Go(func() {
			resp := a.send(b, http.MethodGet, v.url+path, "", nil, "Authorization", login)
			if resp == nil {
				return
			}
			defer resp.Body.Close()
			time.Sleep(130*time.Second - time.Since(begin))
			if n, err := io.Copy(io.Discard, resp.Body); err == nil && n >= 12<<20 {
				held.Add(1)
			}
		})
	}
	running.Wait()
	return v.damage(fmt.Sprintf("%d of 12 were still held after 130 s", held.Load()))
}

// attackDisk pushes twenty versions of a state of 780 KiB, prunes all but two and collects
// garbage.
func attackDisk(b *testing.B) damage {
	v := newVictim(b, "serve", "--listen", "127.0.0.1:0", "--storage", b.TempDir())
	storage := v.cmd.Args[len(v.cmd.Args)-1]
	okara := func(args ...string) string {
		cmd := exec.Command(attackedProgram(b), args...)
		cmd.Env = []string{"HOME=" + b.TempDir()}
		out, err := cmd.CombinedOutput()
		if err != nil {
			b.Fatalf("%v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	repository := strings.TrimPrefix(v.url, "http://") + "/state/shop"
	for serial := range 20 {
		noise := make([]byte, 390<<10)
		if _, err := io.ReadFull(rand.NewChaCha8([32]byte{byte(serial)}), noise); err != nil {
			b.Fatal(err)
		}
		text := fmt.Sprintf(`{"version":4,"terraform_version":"1.12.6","serial":%d,"lineage":"a","outputs":{"o":{"value":"%x","type":"string"}},"resources":[]}`, serial+1, noise)
		okara("state", "push", repository, writeFile(b, "state", []byte(text)))
	}
	full := diskUsage(storage)
	okara("state", "prune", repository, "--keep", "2", "--yes")
	o := v.damage("")
	v.stop(time.Minute)
	said := okara("admin", "gc", "--storage", storage)
	o.disk = diskUsage(storage)
	o.text = fmt.Sprintf("%.1f MiB before; gc: %s", float64(full)/(1<<20), said)
	return o
}
