/* An upstream that notes when each request arrives. Keep-alive, one thread, GET only.
 * stamp PORT FILE: on SIGTERM it writes a line "nanoseconds target" for each request. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { STAMPS = 4000000, SOCKETS = 8192, HEAD = 4096 };
struct stamp { long long at; char target[32]; };
static struct stamp *stamps;
static int count;
static char heads[SOCKETS][HEAD];
static int lengths[SOCKETS];
static volatile sig_atomic_t ended;

static void end(int signal) { (void)signal; ended = 1; }

static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void note(const char *head, long long at) {
    const char *target = strchr(head, ' ');
    if (target && count < STAMPS) {
        stamps[count].at = at;
        sscanf(target + 1, "%31s", stamps[count].target);
        count++;
    }
}

/* Answers every whole head that has come on a socket; 0 when it is to be closed. */
static int serve(int fd) {
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
    int got = read(fd, heads[fd] + lengths[fd], HEAD - 1 - lengths[fd]);
    long long at = now();
    if (got <= 0) return 0;
    lengths[fd] += got;
    heads[fd][lengths[fd]] = 0;
    for (char *stop; (stop = strstr(heads[fd], "\r\n\r\n"));) {
        note(heads[fd], at);
        int used = stop + 4 - heads[fd];
        lengths[fd] -= used;
        memmove(heads[fd], heads[fd] + used, lengths[fd] + 1);
        if (write(fd, answer, sizeof answer - 1) < 0) return 0;
    }
    return lengths[fd] < HEAD - 1;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    struct sigaction on_end = {.sa_handler = end};
    sigaction(SIGTERM, &on_end, 0);
    signal(SIGPIPE, SIG_IGN);
    stamps = calloc(STAMPS, sizeof *stamps);
    int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 4096)) return 1;
    int poll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, events[128];
    epoll_ctl(poll, EPOLL_CTL_ADD, listener, &event);
    while (!ended) {
        int ready = epoll_wait(poll, events, 128, 500);
        for (int i = 0; i < ready; i++) {
            int fd = events[i].data.fd;
            if (fd != listener) {
                if (!serve(fd)) close(fd);
                continue;
            }
            int client = accept(listener, 0, 0);
            if (client < 0) continue;
            if (client >= SOCKETS) { close(client); continue; }
            setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
            lengths[client] = 0;
            event.data.fd = client;
            epoll_ctl(poll, EPOLL_CTL_ADD, client, &event);
        }
    }
    FILE *file = fopen(argv[2], "w");
    for (int i = 0; file && i < count; i++) fprintf(file, "%lld %s\n", stamps[i].at, stamps[i].target);
    return file ? fclose(file) : 1;
}
