package org.apache.zookeeper.server.admin;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import org.apache.zookeeper.server.ZooKeeperServer;

/**
 * ZooKeeper's own commands and its own JSON, over the JDK's HTTP server: Jetty is not among the jars. The server makes
 * its admin server by this name, so a class of this name in front of the jars is the one it gets. Its port is any that
 * is free, and stands in the file admin.port in the working directory.
 */
public class JettyAdminServer implements AdminServer {
    private final HttpServer http;
    private volatile ZooKeeperServer server;

    public JettyAdminServer() throws IOException {
        http = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        Files.writeString(Path.of("admin.port"), String.valueOf(http.getAddress().getPort()));
        http.createContext("/commands/", this::answer);
    }

    @Override
    public void start() {
        http.start();
    }

    @Override
    public void shutdown() {
        http.stop(0);
    }

    @Override
    public void setZooKeeperServer(ZooKeeperServer server) {
        this.server = server;
    }

    private void answer(HttpExchange exchange) throws IOException {
        Map<String, String> parameters = new HashMap<>();
        String query = exchange.getRequestURI().getQuery();
        for (String pair : query == null ? new String[0] : query.split("&")) {
            String[] parts = pair.split("=", 2);
            parameters.put(parts[0], parts.length > 1 ? parts[1] : "");
        }
        String name = exchange.getRequestURI().getPath().substring("/commands/".length());
        String auth = exchange.getRequestHeaders().getFirst("Authorization");
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        CommandResponse response = Commands.runGetCommand(name, server, parameters, auth, null);
        new JsonOutputter("127.0.0.1").output(response, new PrintWriter(new OutputStreamWriter(out), true));
        exchange.getResponseHeaders().add("Content-Type", "application/json");
        exchange.sendResponseHeaders(response.getStatusCode(), out.size());
        exchange.getResponseBody().write(out.toByteArray());
        exchange.close();
    }
}
