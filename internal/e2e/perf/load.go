// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// connections is the number of concurrent clients, and requests how many each sends.
const (
	connections = 16
	requests    = 500
)

// listenBare serves one answer for all requests.
func listenBare(header http.Header, body []byte) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("listening on http://%s\n", l.Addr())
	return (&http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		maps.Copy(w.Header(), header)
		_, _ = w.Write(body) // an error means that the client is gone
	})}).Serve(l)
}

// load requests a URL over persistent connections with a minimal client, and returns the
// answers per second and the 99th percentile in milliseconds.
func load(address string) (rate, p99 float64, err error) {
	u, err := url.Parse(address)
	if err != nil {
		return 0, 0, err
	}
	times := make([][]float64, connections)
	errs := make([]error, connections)
	var clients sync.WaitGroup
	begin := time.Now()
	for i := range connections {
		clients.Go(func() { times[i], errs[i] = client(u) })
	}
	clients.Wait()
	took := time.Since(begin)
	if err := errors.Join(errs...); err != nil {
		return 0, 0, err
	}
	all := slices.Concat(times...)
	slices.Sort(all)
	return float64(len(all)) / took.Seconds(), all[len(all)*99/100], nil
}

// client sends requests over one connection, one after the other.
func client(u *url.URL) ([]float64, error) {
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ask := []byte("GET " + u.Path + " HTTP/1.1\r\nHost: " + u.Host + "\r\n\r\n")
	answers := bufio.NewReader(conn)
	var times []float64
	for range requests {
		at := time.Now()
		if _, err := conn.Write(ask); err != nil {
			return nil, err
		}
		if err := skipAnswer(answers); err != nil {
			return nil, err
		}
		times = append(times, float64(time.Since(at).Microseconds())/1000)
	}
	return times, nil
}

// skipAnswer reads an answer with a content length.
func skipAnswer(r *bufio.Reader) error {
	line, err := r.ReadString('\n')
	if err != nil {
		return err
	}
	if !strings.HasPrefix(line, "HTTP/1.1 200 ") {
		return fmt.Errorf("answered with %q", strings.TrimSpace(line))
	}
	length := int64(-1)
	for {
		if line, err = r.ReadString('\n'); err != nil {
			return err
		}
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "" {
			break
		}
		if strings.EqualFold(name, "Content-Length") {
			if length, err = strconv.ParseInt(strings.TrimSpace(value), 10, 64); err != nil {
				return err
			}
		}
	}
	if length < 0 {
		return errors.New("the answer has no length")
	}
	_, err = io.CopyN(io.Discard, r, length)
	return err
}
